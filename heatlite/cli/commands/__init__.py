"""The commands of `heatlite`, one module for each subject."""
