"""A static model of kernels: predicts from a kernel's last stage and the shapes of its arguments
how many cycles a launch takes, and where they go (`prediction.py`). Nothing is computed of tiles.
"""

from .devices import B200, DEVICES, H100, Device
from .prediction import Kernel, Prediction, predict

__all__ = ["B200", "DEVICES", "H100", "Device", "Kernel", "Prediction", "predict"]
