"""What `test_local_hub` runs in a process of its own: reads everything, and prints it as JSON."""

import json
import sys
from pathlib import Path

from isoloss.corpora.data_sets import HubDataSet
from isoloss.corpora.glue import GlueTask
from isoloss.corpora.prepared_corpus import CorpusRequest, prepared_corpus
from isoloss.corpora.vocabulary import OwnVocabulary
from isoloss.errors import BadInput
from isoloss.models.hub_names import refuse_absent_data_set
from isoloss.progress import silent


def main(name: str, revision: str, cache: Path) -> None:
    source = HubDataSet(name, revision=revision)
    streamed = HubDataSet(name, streaming=True, revision=revision)
    request = CorpusRequest(source, OwnVocabulary(100), length=8, validation_share=0.2)
    corpus = prepared_corpus(request, cache)
    found = {
        "sealed": json.loads(next((cache / "corpora").glob("*/corpus.json")).read_text()),
        "documents": corpus.counts.documents,
        "by_script": [each.text for each in HubDataSet(name).documents(cache, silent)],
        "streamed": [each.text for each in streamed.documents(cache, silent)],
    }
    try:
        list(HubDataSet("someone/nothing").documents(cache, silent))
    except BadInput as error:
        found["missing"] = str(error)
    refuse_absent_data_set(name)
    try:
        refuse_absent_data_set("someone/nothing")
    except BadInput as error:
        found["refused"] = str(error)
    for task in ("sst2", "qnli", "rte"):
        source = GlueTask(task)
        made = source.task(cache, silent)
        parts = {part: getattr(made, part) for part in ("train", "validation", "test")}
        found[task] = {
            "classes": made.classes,
            "commit": source.commit,
            **{
                part: [list(each.texts), each.seconds and list(each.seconds), list(each.labels)]
                for part, each in parts.items()
            },
        }
    print("found", json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
