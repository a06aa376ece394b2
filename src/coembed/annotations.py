"""Words for the shapes of arrays in signatures: ``Float[np.ndarray, "n 3"]``.

They are those of jaxtyping where somebody reads them: a type checker, or the tests, which check
every call. Elsewhere they only name the array's type, since importing jaxtyping takes about as long
as preparing a shape.
"""

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["Bool", "Float", "Int", "Sparse"]

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int
else:

    class _Array:
        """Stands for the array type that it is indexed with."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float = Int = _Array

if TYPE_CHECKING:
    from scipy.sparse import csc_array as Sparse  # noqa: N812
else:
    Sparse = Any  # SciPy's sparse matrices take longer to import than a cached shape to be read
