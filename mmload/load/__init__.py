"""The client side: when to send, what to send, and the loop that sends it."""
