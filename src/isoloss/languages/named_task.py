"""A language's task by its name, for those who measure it and for those who train against it."""

from isoloss.errors import BadInput
from isoloss.languages.constituent_task import constituent_task
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.languages.task import Task


def named_task(language: Language, name: str) -> Task:
    """The language's task of that name. Raises BadInput when it has none.

    A grammar's tasks include rare ones, and those of the authors' labels; see `constituent_task`.
    """
    if isinstance(language, PCFG):
        return constituent_task(language, name)
    tasks = {task.name: task for task in language.tasks()}
    if name not in tasks:
        raise BadInput(f"the language has no task {name!r}; choose {', '.join(tasks) or 'another language'}")
    return tasks[name]
