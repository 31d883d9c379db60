"""What `isoloss probabilities` takes."""

from dataclasses import dataclass

from isoloss.command_line.options.language_file import LONGEST, LanguageFile, Longest, MaximumLength


@dataclass(frozen=True)
class ProbabilitiesOptions:
    """Show the exact probabilities of every word of a sentence: masked, and next.

    Example: isoloss probabilities my.pcfg --sentence "the cat sleeps" --json
    """

    language: LanguageFile
    sentence: str
    """The sentence, words separated by blanks."""
    json: bool = False
    """Print JSON with the probability of every word of the vocabulary."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST
