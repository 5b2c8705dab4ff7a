"""A Franka arm behind hil-serl's server: the client, its profiles and cameras, and a stand-in for the server."""
