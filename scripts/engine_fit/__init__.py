"""What scripts/fit_engine.py is made of."""
