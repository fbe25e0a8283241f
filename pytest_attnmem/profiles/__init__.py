"""The devices that the null runtime and the simulation can stand for."""

from .architectures import ARCHITECTURES as ARCHITECTURES
from .architectures import Architecture as Architecture
from .architectures import Rates as Rates
from .device_profile import DeviceProfile as DeviceProfile
from .names import find_profile as find_profile
from .names import meant as meant
from .offered import offered_profiles as offered_profiles
from .rows import DEFAULT_PROFILE as DEFAULT_PROFILE
from .rows import PROFILES as PROFILES
