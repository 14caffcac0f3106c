"""Whether rows come in random order: ranks, bets on them, and a verdict whose chance of a false alarm is bounded."""
