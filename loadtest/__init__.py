"""Load tests with locust: users, load shapes, and the proof that nothing acknowledged was lost."""
