"""Templates, guided by coverage. How to run it: README.md."""

from tests.fuzz.guided import run

if __name__ == "__main__":
    run("template")
