"""The known data sets, each with everything its file is checked against.

The publishers give no checksums, so a file is accepted by its content: the number of rows and
columns, the column names where the file has them, and how often each label occurs.
"""

from dataclasses import dataclass

UCI = "https://archive.ics.uci.edu"
UCI_FILES = f"{UCI}/ml/machine-learning-databases"


@dataclass(frozen=True)
class Delimited:
    """A text table, one example per line; ``target`` is -1 where the last column is the target."""

    delimiter: str
    target: int = -1
    header: bool = False
    recode: tuple[tuple[int, int], ...] = ()
    """Pairs (label in the original, label in the data set); empty to keep the labels."""


@dataclass(frozen=True)
class Split:
    """Expected rows, and expected (label, count) pairs; no pairs for a real-valued target."""

    rows: int
    labels: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Spec:
    """What is known about one data set before its file is opened."""

    name: str
    title: str
    base_url: str
    files: tuple[str, ...]
    layout: Delimited | None
    """None for four IDX files: train images, train labels, test images, test labels."""
    x_dtype: str
    y_dtype: str
    train: Split
    feature_names: tuple[str, ...]
    target_name: str
    source: str
    citation: str
    licence: str = "CC BY 4.0"
    test: Split | None = None

    @property
    def filename(self) -> str:
        """Name of the stored file inside the data folder."""
        return f"{self.name}.npz"

    @property
    def columns(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    def splits(self) -> tuple[tuple[str, Split], ...]:
        """Suffixes of the stored arrays' names, each with what is expected of them."""
        if self.test is None:
            return (("", self.train),)
        return (("_train", self.train), ("_test", self.test))

    def urls(self, base_url: str | None = None) -> tuple[str, ...]:
        """Address of each original file, at the publisher or below `base_url`."""
        base = (self.base_url if base_url is None else base_url).rstrip("/")
        return tuple(f"{base}/{file}" for file in self.files)


def _numbered(stem: str, first: int, last: int) -> tuple[str, ...]:
    """Give the column names `stem` + number, from `first` to `last`."""
    return tuple(f"{stem}{i}" for i in range(first, last + 1))


_WINE_COLUMNS = (
    "fixed acidity, volatile acidity, citric acid, residual sugar, chlorides, free sulfur dioxide, "
    "total sulfur dioxide, density, pH, sulphates, alcohol"
)
_COVERTYPE_COLUMNS = (
    "Elevation, Aspect, Slope, Horizontal_Distance_To_Hydrology, Vertical_Distance_To_Hydrology, "
    "Horizontal_Distance_To_Roadways, Hillshade_9am, Hillshade_Noon, Hillshade_3pm, "
    "Horizontal_Distance_To_Fire_Points"
)

_ALL = (
    Spec(
        name="wine",
        title="Wine Quality (white)",
        base_url=f"{UCI_FILES}/wine-quality",
        files=("winequality-white.csv",),
        layout=Delimited(";", header=True),
        x_dtype="float64",
        y_dtype="int8",
        train=Split(4898, ((3, 20), (4, 163), (5, 1457), (6, 2198), (7, 880), (8, 175), (9, 5))),
        feature_names=tuple(_WINE_COLUMNS.split(", ")),
        target_name="quality",
        source=f"{UCI}/dataset/186/wine+quality",
        citation="Cortez, P., Cerdeira, A., Almeida, F., Matos, T., Reis, J. (2009). Wine Quality. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C56S3T",
    ),
    Spec(
        name="protein",
        title="Physicochemical Properties of Protein Tertiary Structure",
        base_url=f"{UCI_FILES}/00265",
        files=("CASP.csv",),
        layout=Delimited(",", target=0, header=True),
        x_dtype="float64",
        y_dtype="float64",
        train=Split(45730),
        feature_names=_numbered("F", 1, 9),
        target_name="RMSD",
        source=f"{UCI}/dataset/265/physicochemical+properties+of+protein+tertiary+structure",
        citation="Rana, P. (2013). Physicochemical Properties of Protein Tertiary Structure. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C5QW3H",
    ),
    Spec(
        name="skin",
        title="Skin Segmentation",
        base_url=f"{UCI_FILES}/00229",
        files=("Skin_NonSkin.txt",),
        layout=Delimited("\t", recode=((1, 1), (2, 0))),
        x_dtype="uint8",
        y_dtype="int8",
        train=Split(245057, ((0, 194198), (1, 50859))),
        feature_names=("B", "G", "R"),
        target_name="skin",
        source=f"{UCI}/dataset/229/skin+segmentation",
        citation="Bhatt, R., Dhall, A. (2009). Skin Segmentation. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C5T30C",
    ),
    Spec(
        name="mnist",
        title="MNIST handwritten digits",
        base_url="https://ossci-datasets.s3.amazonaws.com/mnist",
        files=(
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        ),
        layout=None,
        x_dtype="uint8",
        y_dtype="uint8",
        train=Split(
            60000,
            tuple(enumerate((5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949))),
        ),
        test=Split(
            10000, tuple(enumerate((980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)))
        ),
        feature_names=_numbered("pixel", 0, 783),
        target_name="digit",
        licence="CC BY-SA 3.0",
        source="http://yann.lecun.com/exdb/mnist/",
        citation="LeCun, Y., Bottou, L., Bengio, Y., Haffner, P. (1998). Gradient-based learning "
        "applied to document recognition. Proceedings of the IEEE 86(11), 2278-2324.",
    ),
    Spec(
        name="covertype",
        title="Covertype",
        base_url=f"{UCI_FILES}/covtype",
        files=("covtype.data.gz",),
        layout=Delimited(","),
        x_dtype="int16",
        y_dtype="int8",
        train=Split(
            581012,
            ((1, 211840), (2, 283301), (3, 35754), (4, 2747), (5, 9493), (6, 17367), (7, 20510)),
        ),
        feature_names=(
            *_COVERTYPE_COLUMNS.split(", "),
            *_numbered("Wilderness_Area", 1, 4),
            *_numbered("Soil_Type", 1, 40),
        ),
        target_name="Cover_Type",
        source=f"{UCI}/dataset/31/covertype",
        citation="Blackard, J. (1998). Covertype. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C50K5N",
    ),
)

SPECS: dict[str, Spec] = {spec.name: spec for spec in _ALL}
