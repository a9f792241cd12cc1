"""The attack corpus: what a target may try, run live against a backend."""
