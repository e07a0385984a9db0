# The demo on any machine, without a GPU:
#   docker build -t pamd . && docker run --rm -v "$PWD/demo:/home/pamd/demo" pamd
# Other commands: docker run --rm pamd pamd doctor
# Pinned by digest, so that a build is repeatable. Dependabot proposes newer ones.
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

# MuJoCo draws through EGL, here in software. The libraries follow the base image, so they are not pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1 \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 pamd
WORKDIR /home/pamd/source
COPY --chown=pamd . .
# The CPU build of torch: without the GPU libraries the image is several gigabytes smaller.
RUN python -m pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    -c constraints.txt '.[lab]'

USER 1000
WORKDIR /home/pamd
RUN mkdir demo
ENV MUJOCO_GL=egl PYTHONUNBUFFERED=1
CMD ["python", "source/examples/demo.py"]
