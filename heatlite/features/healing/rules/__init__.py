"""Rules of healing, pure: policies, windows, brakes, incidents."""
