"""Examines the installation, the machine, and models and exports on disk. The examination itself runs without Keras."""

from keras_encdec.diagnosis.diagnosis import Diagnosis as Diagnosis
from keras_encdec.diagnosis.diagnosis import DiagnosisOptions as DiagnosisOptions
from keras_encdec.diagnosis.diagnosis import Machine as Machine
from keras_encdec.diagnosis.diagnosis import Section as Section
from keras_encdec.diagnosis.diagnosis import diagnose as diagnose
from keras_encdec.diagnosis.libraries import BackendProbe as BackendProbe
from keras_encdec.diagnosis.libraries import ChosenBackend as ChosenBackend
from keras_encdec.diagnosis.libraries import Library as Library
from keras_encdec.diagnosis.libraries import Versions as Versions
from keras_encdec.diagnosis.paths import CheckedPath as CheckedPath
