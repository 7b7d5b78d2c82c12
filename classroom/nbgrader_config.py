"""What nbgrader is told, in the folder that classroom/marks.py makes for it."""

c = get_config()  # noqa: F821 (what reads this file defines it)

c.CourseDirectory.course_id = "attention"
c.ClearSolutions.enabled = False  # the course's notebooks hold no solutions, and what an exercise ships is to stay
c.Execute.timeout = 600  # seconds a cell: the lessons that train take more than nbgrader's 30
