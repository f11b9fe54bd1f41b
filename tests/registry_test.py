"""Tests of registries."""

import re

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.registry import Registry


@pytest.fixture
def colours():
    """A registry of two entries."""
    registry = Registry("colour", others=["none"])
    registry.register("red", (255, 0, 0))
    registry.register("blue", (0, 0, 255))
    return registry


def test_entries_are_found_by_name_in_the_order_of_their_registration(colours):
    assert colours.find("red") == colours["red"] == (255, 0, 0)
    assert list(colours.items()) == [("red", (255, 0, 0)), ("blue", (0, 0, 255))]
    assert "green" not in colours and colours.get("green") is None and len(colours) == 2


@pytest.mark.parametrize("name", ["green", "none", "", None, ["red"]])
def test_an_unknown_name_is_an_error_with_the_names_that_can_be_chosen(colours, name):
    expected = f"found colour={name!r}, expected one of none, red, blue"
    with pytest.raises(ConfigurationError, match=f"^{re.escape(expected)}$") as error:
        colours.find(name)
    assert error.value.sentence("--{}".format).startswith("found --colour=")


def test_names_that_are_registered_later_can_be_chosen_but_not_found():
    registry = Registry("colour", others=["none"], expected=["red", "blue"])
    assert registry.choices == ["none", "red", "blue"] and list(registry) == []
    with pytest.raises(ConfigurationError, match="found colour='red', expected one of none, red, blue"):
        registry.find("red")
    for name in ("blue", "green"):
        registry.register(name, name)
    assert registry.choices == ["none", "red", "blue", "green"] and list(registry) == ["blue", "green"]


def test_a_name_has_one_entry(colours):
    assert colours.register("red", (255, 0, 0)) == (255, 0, 0)
    expected = r"found the colour 'red' registered already \(builtins.tuple\), expected a new name for builtins.str"
    with pytest.raises(ValueError, match=expected):
        colours.register("red", "#ff0000")
    assert colours["red"] == (255, 0, 0)


def test_a_class_that_is_defined_again_replaces_its_earlier_definition():
    def defined():
        class Red:
            pass

        return Red

    registry = Registry("colour")
    first, second = (registry.register("red", defined()) for _ in range(2))
    assert first is not second and registry["red"] is second
    with pytest.raises(ValueError, match=r"Red\), expected a new name for builtins.int"):
        registry.register("red", int)


def test_a_decorator_registers_subclasses_under_a_name():
    registry = Registry("number")

    @registry.decorator("truth", int)
    class Truth(int):
        pass

    assert registry["truth"] is Truth
    with pytest.raises(ValueError, match="found the number <class 'str'>, expected a subclass of int"):
        registry.decorator("text", int)(str)
    for name in (Truth, None, ""):  # such as @registry.decorator without its arguments
        expected = re.escape(f"found {name!r} in place of the name of a new number, expected a text")
        with pytest.raises(ValueError, match=expected):
            registry.decorator(name, int)
        with pytest.raises(ValueError, match=expected):
            registry.register(name, Truth)
    assert list(registry) == ["truth"]


def test_an_entry_can_be_removed(colours):
    colours.unregister("red")
    assert list(colours) == ["blue"]
    colours.register("red", (200, 0, 0))
    with pytest.raises(KeyError):
        colours.unregister("green")
