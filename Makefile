.PHONY: check fix format lint types rooms tests

check: format lint types rooms tests

format:
	ruff format --check .

lint:
	ruff check .

types:
	mypy

rooms:
	pytest tests/test_house.py

tests:
	pytest

fix:
	ruff format .
	ruff check --fix .
