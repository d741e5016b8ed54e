"""What becomes of a lesson: written, merged, credited, decided on, distilled, undone, derived again."""
