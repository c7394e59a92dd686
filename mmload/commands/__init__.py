"""One file a command: flags in, the work done elsewhere, words out. Loaded only when called."""
