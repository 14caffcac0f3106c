"""The nightly script that ``Durable`` replaces: it reads all rows so far, and fits them."""

import json
import sys
from importlib import import_module

import joblib
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

given = json.loads(sys.argv[1])
rows = pd.concat(pd.read_csv(file) for file in given["files"]).drop(columns=given["drop"])
if given["date"]:
    rows[given["date"]] = (pd.to_datetime(rows[given["date"]]) - pd.Timestamp("2000-01-01")).dt.days
y = rows.pop(given["target"]) if given["target"] else None
module, _, name = given["estimator"].rpartition(".")
model = getattr(import_module(module), name)(**given["settings"])
if given["boosts"]:
    rows = rows.astype(dict.fromkeys(rows.select_dtypes("object"), "category"))
else:
    strings = make_column_selector(dtype_include="object")
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), strings), remainder=numbers)
    model = make_pipeline(encode, model)
joblib.dump(model.fit(rows, y), given["out"])
