"""From records and spans to what a report says. Pure: no I/O, no clock."""
