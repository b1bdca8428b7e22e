"""Load tests with locust: users, load shapes, and the proof that no acknowledged record was
lost."""
