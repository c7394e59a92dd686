"""One file a command: flags in, the work done elsewhere, words out. Loaded only when called."""

SERVER_COMMAND = "--server-command"  # what `cli` makes of each word after `--`
WITH_SERVER = ("run", "ab", "sweep", "capacity")  # commands that take a server's command after `--`
