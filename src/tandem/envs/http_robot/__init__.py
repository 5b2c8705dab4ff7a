"""A robot behind HTTP that is moved by absolute poses: what the clients of Isaac's gear server and of hil-serl's Franka server share."""
