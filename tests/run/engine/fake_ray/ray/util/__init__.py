import concurrent.futures


class _Group:
    def ready(self):
        found = concurrent.futures.Future()
        found.set_result(self)
        return found


def placement_group(needs, strategy):
    return _Group()


def remove_placement_group(group):
    pass


def get_node_ip_address():
    return "127.0.0.1"
