"""XGBoost by its own interface and by scikit-learn's."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
import xgboost
from windows import call, going

random = np.random.default_rng(1)
x = random.normal(size=(20_000, 20))
y = (x[:, 0] * x[:, 1] > 0).astype(int)
for _ in going():
    with call("xgboost.DMatrix()"):
        rows = xgboost.DMatrix(x, y)
    with call("xgboost.train"):
        booster = xgboost.train({"objective": "binary:logistic", "max_depth": 5}, rows, 10)
    with call("xgboost.Booster.predict"):
        booster.predict(rows)
    with call("xgboost.XGBClassifier.fit"):
        xgboost.XGBClassifier(n_estimators=10, max_depth=5).fit(x, y)
