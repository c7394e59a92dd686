"""Two sides of one load, run in turn: `mmload ab`."""
