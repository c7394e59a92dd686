"""The layered profile of a server: whose code its processor time is spent in, and how deep.

`collect` runs py-spy on the server's processes and makes a `Session` of what it saw; `stacks` reads
py-spy's text; `layers` is the table of packages; `cake` adds up. All but `collect` is pure.
"""
