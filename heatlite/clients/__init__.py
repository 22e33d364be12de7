"""The clouds: one interface (`cloud`), a real one behind it (`connection`), one in memory (`simulated`)."""
