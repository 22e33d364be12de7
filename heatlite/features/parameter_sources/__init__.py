"""Parameter sources: values that parameters get from outputs of other stacks."""
