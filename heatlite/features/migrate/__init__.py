"""Taking stacks over from a running Heat, and letting go of them there.

`source` reads a stack, `document` makes the stack document that heatlite adopts, `findings` judges what is found, and
`ledger` keeps the state of each stack in a file. `moves` runs the steps for the commands: both sides are given to it
as `Api`. `service` and `transport` connect to the Heat. `terraform` reads state files.
"""
