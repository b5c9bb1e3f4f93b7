"""scikit-learn: estimators of several kinds, fitted and asked."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from windows import call, going

random = np.random.default_rng(1)
x = random.normal(size=(3000, 30))
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int)
for _ in going():
    with call("sklearn.ensemble.RandomForestClassifier.fit"):
        forest = RandomForestClassifier(20, random_state=1).fit(x, y)
    with call("sklearn.ensemble.RandomForestClassifier.predict"):
        forest.predict(x)
    with call("sklearn.ensemble.GradientBoostingClassifier.fit"):
        GradientBoostingClassifier(n_estimators=5).fit(x, y)
    with call("sklearn.svm.SVC.fit"):
        SVC().fit(x[:1500], y[:1500])
    with call("sklearn.cluster.KMeans.fit"):
        KMeans(8, n_init=3).fit(x)
    with call("sklearn.neighbors.KNeighborsClassifier.predict"):
        KNeighborsClassifier().fit(x, y).predict(x)
    with call("sklearn.decomposition.PCA.fit_transform"):
        PCA(10).fit_transform(x)
    with call("sklearn.pipeline.Pipeline.fit"):
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(x, y)
