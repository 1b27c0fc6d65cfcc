"""API processes beside the main one: started, supervised, and their metrics merged."""
