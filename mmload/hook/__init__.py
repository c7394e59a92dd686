"""The server side: stamps what happens to a request. Stdlib only; inert unless switched on."""
