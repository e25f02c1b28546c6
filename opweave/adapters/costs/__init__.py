"""Where seconds come from: measurements on this machine, profiles, a roofline."""
