"""Many runs to find a setting: axes, plan, state, runs, and what they show together."""
