"""Reasons why a stack is as it is: one pure function, rows in and facts out."""
