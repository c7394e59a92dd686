"""`python -m mmload`."""

from mmload.cli import main

if __name__ == "__main__":
    main()
