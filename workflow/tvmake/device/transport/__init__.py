"""Transports: devices with a shell over ssh or adb."""
