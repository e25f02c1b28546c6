"""x"""
def programs(*, smoke): pass
