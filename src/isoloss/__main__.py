"""`python -m isoloss`: the command line."""

from isoloss.cli import main

if __name__ == "__main__":
    main()
