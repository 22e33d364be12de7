"""Programs that make files of the repository. They are not part of the product."""
