"""Statements of random programs on the lines of tiles: scans, sorts, elements by their places."""

from __future__ import annotations

from .program_multiplies import LotOfMultiplies
from .program_views import BYTES, Value


class LotOfLines(LotOfMultiplies):
    """The statements of a program on the lines of tiles."""

    def scan(self) -> None:
        """Sums, products or extremes up to each element, or what a function of two tiles makes."""
        lot = self.lot
        value = self.clipped(lot.choice(self.tiles()))
        self.features.add("scans")
        mode = lot.choice((0, 1, -1))
        how = "".join(f", {word}=True" for word in ("reverse", "exclusive") if self.chance(0.4))
        word = lot.choice(("cumsum", "cumprod", "cummax", "cummin", *3 * ("segments",)))
        if word in ("cumprod", "cummax", "cummin"):
            # What is empty is infinite, or the least of integers.
            how = how.replace(", exclusive=True", "")
        dtype = value.dtype
        if BYTES[dtype] == 1:
            dtype = "i32" if dtype in ("i8", "u8") else "f32"
        name = value.name
        if word == "cumprod":
            name = f"cute.clamp({name}, 0, 1)"
        if word == "segments":
            self.features.add("scans of tuples")
            flags = f"({name} > 1).to(cute.i32)"
            made = "lambda x, f, y, g: (cute.where(g > 0, y, x + y), f | g)"
            first = ", initial=(0, 0)" if "exclusive" in how else ""
            text = f"cute.scan(({name}, {flags}), {mode}, {made}{how}{first})[0]"
        else:
            text = f"cute.{word}({name}, {mode}{how})"
        self.add(text, value.shape, dtype)

    def sort(self) -> None:
        """Lines in order, or where they were."""
        lot = self.lot
        value = lot.choice(self.tiles())
        self.features.add("sorts")
        how = f"{lot.choice((0, 1))}{lot.choice(('', ', descending=True'))}"
        kind = lot.choice(("sort", "values", "argsort", "top_k"))
        # A zero may come without the sign that it had.
        name = f"({value.name} + 0)"
        match kind:
            case "sort":
                self.add(f"cute.sort({name}, {how})", value.shape, value.dtype)
            case "values":
                beside = self.alike(value)
                text = f"cute.sort({name}, {how}, values={beside.name})[1]"
                self.add(text, value.shape, beside.dtype)
            case "argsort":
                self.add(f"cute.argsort({name}, {how})", value.shape, "i32")
            case _:
                assert value.shape is not None
                extent = value.shape[int(how[0])]
                k = lot.choice((1, max(1, extent // 2), extent)) if how[0] == "1" else extent
                dtype = "f32" if value.dtype in ("e4m3", "e5m2") else value.dtype
                place = lot.choice((0, 1))
                shape = (value.shape[0], k) if how[0] == "1" else value.shape
                text = f"cute.top_k({name}, {k}, {how[0]})[{place}]"
                self.add(text, shape, "i32" if place else dtype)

    def places(self) -> None:
        """Elements that are gathered, scattered or counted within a tile."""
        lot = self.lot
        value = lot.choice(self.tiles())
        assert value.shape is not None
        mode, (rows, columns) = lot.choice((0, 1)), value.shape
        extent = value.shape[mode]
        self.features.add("elements by places")
        kind = lot.choice(("take", "take", "put", "add", "histogram", "flip", "reshape"))
        at = f"cute.coord({value.name}, {mode})"
        match kind:
            case "take":
                numbers = lot.choice((f"{at} * 3 % {extent}", f"{at} * 2 - 1", f"{extent} - {at}"))
                text = f"cute.take_along({value.name}, {numbers}, {mode})"
                self.add(text, value.shape, value.dtype)
            case "put":
                beside = self.converted(self.clipped(self.alike(value)), value.dtype)
                numbers = lot.choice((f"{at} * 2 - 1", f"{extent} - {at}"))
                text = f"cute.put_along({value.name}, {numbers}, {beside.name}, {mode})"
                self.add(text, value.shape, value.dtype)
            case "add":
                name = value.name
                if value.dtype not in ("i32", "f32"):
                    name = self.add(
                        f"{self.clipped(value).name}.to(cute.i32)", value.shape, "i32"
                    ).name
                dtype = "f32" if value.dtype == "f32" else "i32"
                numbers = lot.choice((f"{at} // 3", f"{at} & 3"))
                given = f"cute.clamp({name}, -1, 1)"
                text = f"cute.put_along({name}, {numbers}, {given}, {mode}, add=True)"
                self.add(text, value.shape, dtype)
            case "histogram":
                numbers = f"{self.clipped(value).name}.to(cute.i32)"
                along = lot.choice((", 1", ", 0", ""))
                bins = columns if along != ", 0" else rows
                shape = {", 1": (rows, bins), ", 0": (bins, columns), "": (1, bins)}[along]
                self.add(f"cute.histogram({numbers}, {bins}{along})", shape, "i32")
            case "flip":
                self.add(f"cute.flip({value.name}, {mode})", value.shape, value.dtype)
            case _:
                text = f"cute.reshape({value.name}, ({columns}, {rows})).T"
                self.add(text, value.shape, value.dtype)

    def ranks(self) -> None:
        """A tile as one of three or four modes, and back."""
        lot = self.lot
        value = lot.choice(self.tiles())
        assert value.shape is not None
        rows, columns = value.shape
        self.features.add("tiles of more modes")
        parts = [n for n in (2, 4, 3, 1) if rows % n == 0]
        shape = [lot.choice(parts[:2]), 0, columns]
        shape[1] = rows // shape[0]
        if columns % 2 == 0 and self.chance(0.4):
            shape[2:] = lot.choice(([columns // 2, 2], [2, columns // 2]))
        rank = len(shape)
        mode = lot.choice((*range(rank), -1))
        cube = self.name("u")
        self.say(f"{cube} = cute.reshape({value.name}, {tuple(shape)})")
        kind = lot.choice(("permute", "reduce", "scan", "stack", "part", "turn", *5 * ("places",)))
        dtype = value.dtype
        match kind:
            case "places":
                self.features.add("places in tiles of more modes")
                text, dtype = self.placed(cube, shape[mode], mode, dtype)
            case "permute":
                order = list(range(rank))
                lot.shuffle(order)
                text = f"cute.permute({cube}, {tuple(order)})"
            case "turn":
                text = f"({cube} + 0).mT"
            case "reduce":
                text = (
                    f"cute.maximum({cube}, cute.{lot.choice(('max', 'min'))}({cube}, mode={mode}))"
                )
            case "scan":
                dtype = {"i8": "i32", "u8": "i32", "e4m3": "f32", "e5m2": "f32"}.get(dtype, dtype)
                text = f"cute.cummax({cube}, mode={mode})"
            case "stack":
                stacked = f"cute.stack(({cube}, cute.minimum({cube}, 1)), {mode})"
                text = f"cute.split({stacked}, 2, {mode})[1]"
            case _:
                keys = ["None", *[":"] * rank]
                lot.shuffle(keys)
                text = f"cute.concatenate(({cube}, {cube}), 0)[: {shape[0]}][{', '.join(keys)}]"
                if rank == 4:
                    text = f"{cube}[:, : {shape[1]}]"
        self.add(f"cute.reshape({text}, {value.shape})", value.shape, dtype)

    def placed(self, tile: str, extent: int, mode: int, dtype: str) -> tuple[str, str]:
        """A function of the places along a mode of a tile of any modes, in its shape, and the type
        that it gives.
        """
        lot = self.lot
        at = f"cute.coord({tile}, {mode})"
        wide = "f32" if dtype in ("e4m3", "e5m2") else dtype
        match lot.choice(("take", "put", "top", "sort", "count")):
            case "take":
                numbers = lot.choice((f"{at} * 2 - 1", f"{extent} - {at}"))
                return f"cute.take_along({tile}, {numbers}, {mode})", dtype
            case "put":
                given = f"cute.minimum({tile}, 1)"
                return f"cute.put_along({tile}, {extent} - {at}, {given}, {mode})", dtype
            case "top":
                place = lot.choice((0, 1))
                text = f"cute.top_k(({tile} + 0), {extent}, {mode})[{place}]"
                return text, "i32" if place else wide
            case "sort":
                turned = lot.choice(("", ", descending=True"))
                return f"cute.sort(({tile} + 0), {mode}{turned}, values={tile})[1]", dtype
            case _:
                low = 0 if dtype[0] == "u" else -1
                numbers = f"cute.clamp({tile}, {low}, {min(extent, 9)}).to(cute.i32)"
                return f"cute.histogram({numbers}, {extent}, {mode})", "i32"

    def vectors(self) -> None:
        """A row or a column as a tile of one mode, and what comes of it beside the tile again."""
        lot = self.lot
        value = lot.choice(self.tiles())
        assert value.shape is not None
        self.features.add("tiles of one mode")
        mode = lot.choice((0, 1))
        count, place = value.shape[mode], lot.randrange(value.shape[1 - mode])
        vector = self.name("w")
        self.say(f"{vector} = {value.name}[{f':, {place}' if mode == 0 else place}]")
        dtype = value.dtype
        match lot.choice(("place", "place", "scan", "reduce", "where", "shape", "part")):
            case "place":
                text, dtype = self.placed(vector, count, 0, dtype)
            case "scan":
                text = f"cute.cummax({vector}, mode=0)"
                dtype = {"i8": "i32", "u8": "i32", "e4m3": "f32", "e5m2": "f32"}.get(dtype, dtype)
            case "reduce":
                text = (
                    f"cute.minimum({vector}, cute.{lot.choice(('max', 'min'))}({vector}, mode=0))"
                )
            case "where":
                text = f"cute.where(cute.coord({vector}, 0) % 3 == 1, {vector}, 1)"
            case "shape":
                parts = [n for n in (2, 4, 3, 1) if count % n == 0]
                shape = lot.choice(parts[:2]), 0
                shape = shape[0], count // shape[0]
                text = f"cute.reshape(cute.reshape({vector}, {shape}) + 0, ({count},))"
            case _:
                text = (
                    f"cute.concatenate(({vector}, {vector}), 0)[{count // 2}:{count // 2 + count}]"
                )
        made = self.name("w")
        self.say(f"{made} = {text}")
        line = f"{made}[:, None]" if mode == 0 else f"{made}[None, :]"
        shape = (count, 1) if mode == 0 else (1, count)
        self.add(f"{line} + 0" if self.chance(0.2) else line, shape, dtype)

    def alike(self, value: Value) -> Value:
        """A tile of the same shape, perhaps this one."""
        return self.lot.choice(self.tiles(lambda other: other.shape == value.shape) or [value])
