# docker build --tag isoloss . && docker run --volume "$PWD/results:/isoloss/results" isoloss
# The other command: docker run isoloss make test
FROM python:3.11-slim
# Any make will do, and Debian's mirrors drop the versions that are pinned.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /isoloss
COPY . .
RUN make install PYTHON=python
CMD ["make", "reproduce"]
