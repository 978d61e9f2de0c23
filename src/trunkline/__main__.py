"""`python -m trunkline`."""

from trunkline.cli import main

if __name__ == "__main__":
    main()
