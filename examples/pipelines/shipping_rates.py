"""A pipeline with a function: what it asks for by name it gets, as DataFrames of Spark.

    penstock pipeline run transform --config examples/pipelines/shipping_rates.toml

The result has a column ``value``, so that is what is published, as it is.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.


@F.udf("double", useArrow=False)
def rate(grams: int, express: bool | None) -> float:
    """Any Python; it is shipped to wherever Spark runs."""
    return round(grams / 1000 * (9.5 if express else 4.0), 2)


def rates(parcels: DataFrame) -> DataFrame:
    """A line of text for each parcel."""
    return parcels.select(
        "key",
        F.format_string("%s: %.2f EUR", "id", rate("grams", "express")).alias("value"),
        F.when(F.col("express"), "high").otherwise("normal").alias("priority"),
    )
