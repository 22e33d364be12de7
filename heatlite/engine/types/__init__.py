"""Resources of a stack, made from their types: values, attributes, observations."""
