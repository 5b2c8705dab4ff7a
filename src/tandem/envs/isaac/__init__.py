"""A robot behind HTTP as the Isaac Sim server of the gear assembly speaks it: the client, its profiles, and a stand-in for the server."""
