"""The OpenAPI document, made from the API reference and the body schemas."""
